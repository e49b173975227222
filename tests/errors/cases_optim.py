"""What optimisers, schedules, clipping and averages refuse."""

import numpy as np

import chainrule as cr
from tests.errors.snapshots import case

optim = cr.optim


def leaf(value=(1.0, 2.0)):
    return cr.tensor(value, requires_grad=True)


@case
def optimiser_without_parameters():
    optim.Adam(iter([]))


@case
def optimiser_of_one_tensor():
    optim.Adam(leaf())


@case
def optimiser_of_one_dictionary():
    optim.Adam({"params": [leaf()]})


@case
def optimiser_of_an_array():
    optim.Adam([leaf(), np.ones(2)])


@case
def optimiser_of_a_tensor_that_wants_no_gradient():
    optim.Adam([("weight", cr.tensor([1.0]))])


@case
def optimiser_of_integers():
    optim.Adam([cr.tensor([1, 2])])


@case
def optimiser_of_a_result():
    optim.Adam([leaf() * 2.0])


@case
def optimiser_of_a_parameter_twice():
    w = leaf()
    optim.SGD([{"params": [w]}, {"params": [("tied", w)]}], lr=0.1)


@case
def optimiser_with_a_negative_rate():
    optim.SGD([leaf()], lr=-0.1)


@case
def optimiser_with_one_beta():
    optim.Adam([leaf()], betas=(0.9,))


@case
def optimiser_with_a_beta_of_one():
    optim.AdamW([leaf()], betas=(0.9, 1.0))


@case
def optimiser_with_an_eps_that_is_nan():
    optim.RMSprop([leaf()], eps=float("nan"))


@case
def optimiser_with_a_flag_that_is_one():
    optim.Adam([leaf()], amsgrad=1)


@case
def optimiser_group_with_a_misspelt_option():
    optim.AdamW([{"params": [leaf()], "weight_decy": 0.0}])


@case
def optimiser_group_without_params():
    optim.SGD([{"lr": 0.1}])


@case
def nesterov_without_momentum():
    optim.SGD([leaf()], nesterov=True)


@case
def muon_of_a_vector():
    optim.Muon([leaf()])


@case
def step_with_a_gradient_of_another_shape():
    w = leaf()
    opt = optim.SGD([w])
    w.grad = np.ones((2, 1))
    opt.step()


@case
def step_with_a_gradient_of_another_dtype():
    w = leaf()
    opt = optim.SGD([("layers.0.bias", w)])
    w.grad = np.ones(2, np.float32)
    opt.step()


@case
def step_into_read_only_memory():
    a = np.ones(2)
    w = cr.asarray(a)
    w.requires_grad = True
    w.data.setflags(write=False)
    opt = optim.SGD([w])
    w.grad = np.ones(2)
    opt.step()


@case
def step_of_a_group_whose_parameters_were_replaced():
    opt = optim.SGD([leaf()])
    opt.param_groups[0]["params"] = [leaf()]
    opt.step()


@case
def lbfgs_without_closure():
    optim.LBFGS([leaf()]).step()


@case
def lbfgs_whose_closure_returns_nothing():
    optim.LBFGS([leaf()]).step(lambda: None)


@case
def lbfgs_with_two_groups():
    optim.LBFGS([{"params": [leaf()]}, {"params": [leaf()]}])


@case
def state_of_other_groups():
    saved = optim.Adam([leaf()]).state_dict()
    optim.Adam([leaf(), leaf()]).load_state_dict(saved)


@case
def state_of_another_optimiser():
    saved = optim.RMSprop([leaf()]).state_dict()
    optim.Adam([leaf()]).load_state_dict(saved)


@case
def state_of_another_shape():
    saved = optim.Adam([leaf()]).state_dict()
    optim.Adam([leaf((1.0, 2.0, 3.0))]).load_state_dict(saved)


@case
def state_that_is_none():
    optim.Adam([leaf()]).load_state_dict({"a": 1})


@case
def schedule_without_optimiser():
    optim.StepLR([leaf()], 3)


@case
def schedule_with_a_step_of_zero():
    optim.StepLR(optim.SGD([leaf()]), 0)


@case
def schedule_of_groups_that_came_later():
    opt = optim.SGD([leaf()])
    schedule = optim.StepLR(opt, 3)
    opt.add_param_group({"params": [leaf()]})
    schedule.step()


@case
def schedule_that_goes_on_without_initial_rates():
    optim.StepLR(optim.SGD([leaf()]), 3, last_epoch=5)


@case
def schedule_with_another_state():
    optim.StepLR(optim.SGD([leaf()]), 3).load_state_dict({"epoch": 3})


@case
def one_cycle_of_unknown_length():
    optim.OneCycleLR(optim.Adam([leaf()]), max_lr=1.0)


@case
def one_cycle_that_is_over():
    schedule = optim.OneCycleLR(optim.Adam([leaf()]), max_lr=1.0, total_steps=1)
    schedule.step()
    schedule.step()


@case
def one_cycle_without_momentum():
    optim.OneCycleLR(optim.Adagrad([leaf()]), max_lr=1.0, total_steps=9)


@case
def sequence_with_too_many_milestones():
    opt = optim.SGD([leaf()])
    optim.SequentialLR(opt, [optim.StepLR(opt, 3)], milestones=[4])


@case
def chain_of_nothing():
    optim.ChainedScheduler([])


@case
def clipping_to_a_negative_norm():
    optim.clip_grad_norm_([leaf()], -1.0)


@case
def clipping_by_a_norm_of_type_zero():
    optim.clip_grad_norm_([leaf()], 1.0, norm_type=0)


@case
def clipping_of_no_parameters():
    optim.clip_grad_norm_(iter([]), 1.0)


@case
def clipping_of_an_infinite_norm():
    w = leaf()
    w.grad = np.array([1.0, np.inf])
    optim.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)


@case
def clipping_to_a_value_that_is_nan():
    optim.clip_grad_value_([leaf()], float("nan"))


@case
def average_of_nothing():
    optim.ExponentialMovingAverage([], 0.99)


@case
def average_with_a_decay_above_one():
    optim.ExponentialMovingAverage([leaf()], 1.5)


@case
def average_of_other_parameters():
    saved = optim.AveragedWeights([leaf()]).state_dict()
    optim.AveragedWeights([leaf(), leaf()]).load_state_dict(saved)


@case
def step_of_a_parameter_that_was_replaced_by_another_shape():
    w = leaf()
    opt = optim.SGD([w])
    w.data = np.ones(3)
    w.grad = np.ones(3)
    opt.step()
