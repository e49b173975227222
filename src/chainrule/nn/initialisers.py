"""Values to start from: functions that fill a parameter in place.

In place, as PyTorch's `nn.init` does, because the tensor is what a module and an optimiser already hold.
"""
