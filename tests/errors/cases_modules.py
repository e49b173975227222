"""What modules, layers and initialisers refuse."""

import threading

import numpy as np

import chainrule as cr
from chainrule import nn, tree
from tests.errors.snapshots import case


def line():
    return nn.Linear(2, 3, generator=cr.random.generator(0))


@case
def module_without_forward():
    class Net(nn.Module):
        pass

    Net()(1.0)


@case
def state_of_another_model():
    state = line().state_dict()
    line().load_state_dict({"weight": state["weight"].T, "scale": np.ones(3)})


@case
def state_with_missing_and_unexpected_names():
    line().load_state_dict({"weight": np.ones((3, 2)), "scale": np.ones(3)})


@case
def state_with_more_than_is_needed():
    line().load_state_dict(line().state_dict() | {f"layers.{k}.weight": np.ones(2) for k in range(12)})


@case
def state_of_another_dtype():
    line().load_state_dict(line().state_dict() | {"bias": np.ones(3, complex)})


@case
def state_that_unties():
    model = nn.Sequential(line(), line())
    model[1].weight = model[0].weight
    model.load_state_dict(model.state_dict() | {"1.weight": np.ones((3, 2))})


@case
def two_entries_of_one_name():
    model = line()
    model.more = {"a.b": cr.ones(1), "a": {"b": cr.ones(1)}}
    model.state_dict()


@case
def module_of_another_form():
    other = nn.Sequential(line())
    tree.map(lambda a, b: a, nn.Sequential(line(), line()), other)


@case
def grad_of_a_frozen_module():
    cr.grad(lambda m: m(np.ones(2)).sum())(line().requires_grad_(False))


@case
def grad_of_two_modules_that_share():
    model = line()
    cr.grad(lambda a, b: a.bias.sum() + b.bias.sum(), (0, 1))(model, model)


@case
def two_tangents_of_one_parameter():
    model = line()
    cr.jvp(lambda ms: ms[0].bias.sum(), ((model, model),), ((line(), line()),))


@case
def grad_of_a_module_in_use_elsewhere():
    model, errors = line(), []

    def elsewhere():
        try:
            cr.grad(lambda m: m.bias.sum())(model)
        except cr.errors.GraphError as error:
            errors.append(error)

    def f(m):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return m.bias.sum()

    cr.grad(f)(model)
    raise errors[0]


@case
def layer_of_no_size():
    nn.Linear(3, 0)


@case
def layer_of_integers():
    nn.Linear(3, 2, dtype=np.int64)


@case
def sequential_of_something_else():
    nn.Sequential(line(), 3.0)


@case
def sequential_index_out_of_range():
    nn.Sequential(line(), cr.tanh)[2]


@case
def sequential_key_that_is_not_there():
    nn.Sequential({"first": line()})["last"]


@case
def embedding_index_out_of_range():
    nn.Embedding(10, 3)([[1, 2], [17, 3]])


@case
def embedding_of_floats():
    nn.Embedding(10, 3)([0.5])


@case
def embedding_of_a_vector():
    nn.embedding([0], np.ones(3))


@case
def embedding_padding_out_of_range():
    nn.Embedding(10, 3, padding_idx=10)


@case
def dropout_of_no_probability():
    nn.Dropout(1.5)


@case
def flatten_backwards():
    nn.Flatten(2, 1)(np.ones((2, 3, 4)))


@case
def fill_integers():
    nn.init.normal_(cr.tensor([1, 2]))


@case
def fan_of_a_vector():
    nn.init.kaiming_normal_(nn.parameter(3))


@case
def fan_of_an_unknown_mode():
    nn.init.kaiming_normal_(nn.parameter((2, 3)), mode="fan_inn")


@case
def gain_of_an_unknown_function():
    nn.init.calculate_gain("gelu")


@case
def nothing_between_the_bounds():
    nn.init.trunc_normal_(nn.parameter(3), a=1.0, b=-1.0)


@case
def orthogonal_vector():
    nn.init.orthogonal_(nn.parameter(3))
