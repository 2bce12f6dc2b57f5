"""What the runs left, gathered (`gather`) and compared with print (`compare`), with another method
(`difference`), or with GRPO at equal accuracy (`frontier`)."""
