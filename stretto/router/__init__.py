"""What shape the answer has, what each way of generating it would cost now, so which way."""
