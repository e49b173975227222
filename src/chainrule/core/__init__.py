"""What an operation is (`primitive`), what it leaves behind (`graph`), and what changes how it runs (`modes`)."""
