"""Commands that read recordings and print or draw them."""
