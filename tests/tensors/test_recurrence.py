"""Shared operands: the same numbers and gradients as plain autograd."""

import gc
import weakref

import torch
from torch import nn

from captioning.tensors.recurrence import SharedTensor, SharedWeight


def gradients(loss, tensors):
    return torch.autograd.grad(loss, tensors)


def test_shared_weight_equals_plain_products():
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    inputs = [torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True) for _ in range(4)]

    def loss(product):
        hidden = torch.zeros((), dtype=torch.float64)
        for step in inputs:
            hidden = hidden + product(step * (1 + hidden)).sin().sum()
        return hidden

    expected = gradients(loss(lambda x: x @ weight.T), [weight, *inputs])
    found = gradients(loss(SharedWeight(weight)), [weight, *inputs])
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other)


def test_shared_weight_without_gradient_is_a_plain_product():
    weight, inputs = torch.randn(5, 3), torch.randn(2, 3, requires_grad=True)
    output = SharedWeight(weight)(inputs)
    torch.testing.assert_close(output, inputs @ weight.T)
    output.sum().backward()
    torch.testing.assert_close(inputs.grad, weight.sum(0).expand(2, 3))


def test_shared_tensor_mixes_and_compares_leading_rows():
    tensor = torch.randn(5, 7, 3, dtype=torch.float64, requires_grad=True)
    weights = [torch.randn(rows, 2, 7, dtype=torch.float64, requires_grad=True) for rows in (5, 3, 2)]
    queries = [torch.randn(rows, 2, 3, dtype=torch.float64, requires_grad=True) for rows in (5, 3, 2)]

    def loss(mix, compare):
        steps = zip(weights, queries, strict=True)
        return sum((mix(w).sin() * compare(q).cos().sum(-1, keepdim=True)).sum() for w, q in steps)

    def plain_mix(w):
        return w @ tensor[: len(w)]

    def plain_compare(q):
        return q @ tensor[: len(q)].transpose(1, 2)

    shared = SharedTensor(tensor)
    leaves = [tensor, *weights, *queries]
    expected = gradients(loss(plain_mix, plain_compare), leaves)
    found = gradients(loss(shared.mix, shared.compare), leaves)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other)


def test_shared_tensor_picks_rows_with_the_gradient_of_a_one_hot_product():
    tensor = torch.randn(5, 7, 3, dtype=torch.float64, requires_grad=True)
    steps = [torch.randint(7, (rows, 2)) for rows in (5, 3, 2)]
    shared = SharedTensor(tensor)
    expected, found = 0.0, 0.0
    for index in steps:
        picked = shared.pick(index)
        plain = torch.nn.functional.one_hot(index, 7).double() @ tensor[: len(index)]
        assert picked.equal(plain)
        expected, found = expected + plain.sin().sum(), found + picked.sin().sum()
    torch.testing.assert_close(*(torch.autograd.grad(loss, tensor)[0] for loss in (found, expected)))
    with torch.no_grad():
        assert SharedTensor(tensor).pick(steps[1]).equal(shared.pick(steps[1]))


def test_rows_of_a_transposed_tensor_are_picked_with_the_right_gradient():
    tensor = torch.randn(7, 5, 3, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[0, 6, 6]])
    SharedTensor(tensor.transpose(0, 1)).pick(index).sum().backward()
    assert tensor.grad[:, 0, 0].tolist() == [1, 0, 0, 0, 0, 0, 2]
    assert tensor.grad.sum() == 9


def test_a_second_backward_pass_starts_from_zero():
    layer = nn.Linear(3, 5, bias=False)
    tensor = torch.randn(2, 7, 3, requires_grad=True)
    for _ in range(2):
        shared, memory = SharedWeight(layer.weight), SharedTensor(tensor)
        output = shared(memory.mix(torch.ones(2, 1, 7)))
        output.sum().backward()
        first, layer.weight.grad = layer.weight.grad, None
        tensor.grad = None
    again = SharedWeight(layer.weight)
    again(SharedTensor(tensor).mix(torch.ones(2, 1, 7))).sum().backward()
    torch.testing.assert_close(layer.weight.grad, first)


def test_memory_is_freed_without_the_cycle_collector():
    tensor = torch.randn(2, 7, 3, requires_grad=True)
    gc.disable()
    try:
        shared = SharedTensor(tensor)
        shared.mix(torch.ones(2, 1, 7)).sum().backward()
        watched = weakref.ref(shared.running)
        del shared
        assert watched() is None
    finally:
        gc.enable()
