"""What the page says: each idea in three sentences, with its pictures and the rows that measure it."""

from __future__ import annotations

from chainrule.walkthrough.page import Section


def sections(graph: str) -> list[Section]:
    """The page from top to bottom; `graph` says which pictures of graphs to show, `graphviz` or `builtin`."""
    return [
        Section(
            "A number that remembers",
            "A Value is a number that keeps a note of the operation and the operands that made it, so a formula leaves a "
            "graph behind. Walked from the result towards the inputs, each operation passes on its share of the result's "
            "sensitivity, by a rule of one line; where several paths meet, the shares add up. That is all of backward().",
            [(f"graph_worked_example_{graph}", "The graph of the loss ((w x + b) - y)**2 with data and gradient of every value")],
            ["A1", "A2", "A3"],
        ),
        Section(
            "All derivatives for the price of a few evaluations",
            "One walk visits every operation once, so it costs about as much as computing the formula did, whether that has "
            "ten inputs or a hundred thousand. Trying each input in turn would cost one evaluation per input: the dotted "
            "line. The walk keeps a list instead of calling itself, so no chain of operations is too long for it.",
            [("cost", "Backward over forward stays constant from 10 to 100,000 inputs, for both engines")],
            ["A4", "A8"],
        ),
        Section(
            "A network made of numbers learns",
            "A neuron is a weighted sum and a kink, a network is neurons after neurons, and each of its weights is a "
            "remembering number. Training repeats one step: compute the loss, walk back, move every weight a little against "
            "its gradient. Two moons that no straight line separates are told apart after some sixty steps.",
            [("moons_learning", "Loss and accuracy by step, with the range over five seeds and the reference's values")],
            ["A5", "A6"],
        ),
        Section(
            "The same with arrays",
            "A Tensor does for a whole array what a Value does for a number: one node, one rule, one gradient of the array's "
            "shape. From the same start both engines must therefore go the same way, and they do, loss by loss to the last "
            "digits. The boundaries that they learn lie on each other.",
            [("moons_boundary", "The decision boundaries of scalar and tensor engine, which look the same")],
            ["B1"],
        ),
        Section(
            "Why arrays: the graph shrinks",
            "On the scalar engine each product of two numbers is an object in memory, and walking the graph is what takes the "
            "time. On arrays the graph has a node for each operation of the program, whatever the number of points, and the "
            "numbers are NumPy's business. Below: a step on two hundred points, the graph of a single neuron on one point, and that of a "
            "whole network on a hundred.",
            [("spiral", "Nodes and milliseconds of one step on both engines"),
             (f"graph_neuron_{graph}", "The graph of Values of one neuron and its loss on one point"),
             (f"graph_tensor_step_{graph}", "The graph of tensors of a network of three layers and its loss on 100 points")],
            ["B6", "C7"],
        ),
        Section(
            "Broadcasting has to be undone",
            "NumPy lets a row meet a matrix by repeating it silently, so the row takes part in many results. Its gradient is "
            "the sum over all of them, taken along just the axes that were repeated. One place in the engine does this for "
            "every operation, and no rule has to think of it.",
            [("broadcasting", "Relative errors of gradients for twelve broadcast patterns and five operations, all at rounding")],
            ["B2", "B3"],
        ),
        Section(
            "From scores to probabilities",
            "Softmax turns scores into shares, and it can do so at any size of the scores if the largest is taken off first. "
            "Its derivative is a matrix, but the walk needs only that matrix times a vector, which two sums give. Behind the "
            "logarithm of the loss nearly everything cancels: what comes back to the scores is p − y.",
            [("cross_entropy", "Probabilities of ten classes, and the gradient, which equals p minus y")],
            ["B4", "B5"],
        ),
        Section(
            "Landing on the closed form",
            "A straight line has a best fit that can be written down, so here descent can be held to the answer. The scalar "
            "engine sees one point at a time in random order, the tensor engine all hundred thousand at each step. Both end "
            "within rounding of it, and far within the millionth that was asked for.",
            [("line", "Distance from the closed form falls below 1e-6 for both engines")],
            ["A7"],
        ),
        Section(
            "Derivatives of derivatives",
            "The rules are written in the arithmetic that they differentiate, so a walk can leave a graph of its own. Walking "
            "that one gives second derivatives, and so on to any order. They equal the formulas worked out by hand, the first "
            "two to the last bit.",
            [("orders", "A function and its first four derivatives: dots by the engine on lines from the formulas")],
            ["A9", "B7"],
        ),
        Section(
            "How anybody can tell",
            "A loss that falls proves little: wrong gradients often point downhill too. So each derivative is compared with "
            "a number that the engine had no part in: differences, the complex step, a formula, NumPy, or PyTorch. These are the "
            "counts; the command chainrule verify lists every check.",
            [],
            ["D1", "D2", "D3"],
        ),
    ]  # fmt: skip
