"""What an operation is (`primitive`), how it is called (`template`, `calls`), what it leaves (`graph`, `equations`)."""
