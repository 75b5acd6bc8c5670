"""What the known graph answers: symbolic answers, what they make certain, sampled queries."""
