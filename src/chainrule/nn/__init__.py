"""Networks: modules, layers, losses, and the functions beside them."""
