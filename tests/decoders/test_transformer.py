"""The transformer's layers against torch's own, with the same weights."""

import torch
from torch import nn

from tests.decoders.test_all_decoders import B, H, R, T, make

WIDENING = 4


def torchs(layer, heads):
    """torch's decoder layer, with the norm first, and the weights of ours."""
    twin = nn.TransformerDecoderLayer(H, heads, WIDENING * H, dropout=0.0, batch_first=True, norm_first=True).double()
    for ours, theirs in ((layer.self_attention, twin.self_attn), (layer.cross_attention, twin.multihead_attn)):
        maps = (ours.query_map, ours.key_map, ours.value_map)
        theirs.in_proj_weight.data = torch.cat([each.weight for each in maps])
        theirs.in_proj_bias.data = torch.cat([each.bias for each in maps])
        theirs.out_proj.load_state_dict(ours.output_map.state_dict())
    for ours, theirs in zip(layer.norms, (twin.norm1, twin.norm2, twin.norm3), strict=True):
        theirs.load_state_dict(ours.state_dict())
    twin.linear1.load_state_dict(layer.widen.state_dict())
    twin.linear2.load_state_dict(layer.narrow.state_dict())
    return twin.eval()


def test_a_layer_is_torchs():
    decoder = make("transformer")
    for parameter in decoder.parameters():  # fresh biases and norms say little
        nn.init.normal_(parameter, std=0.3)
    words, cells = torch.randn(B, 1, T, H).double(), torch.randn(B, R, H).double()
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    for layer in decoder.layers:
        hidden = layer.read_words(words, mask, torch.float64)
        found, _, _ = layer.look(hidden.flatten(1, 2), layer.cross_attention.remember(cells), need_weights=False)
        torch.testing.assert_close(found, torchs(layer, 4)(words[:, 0], cells, tgt_mask=~mask))
