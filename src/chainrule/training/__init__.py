"""The programs of `chainrule train` and `chainrule sample`: models made of this library, trained by one loop.

A program describes its `Task` (`characters`, `digits`, `spiral`, `fashion`, each with `build(settings)`); `loop.Run` trains it,
alone or, by `program`, in a folder from which it can go on.
"""
