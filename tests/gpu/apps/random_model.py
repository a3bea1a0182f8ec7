# SPDX-License-Identifier: MIT
"""Models in host memory with weights that nobody trained, the same in every run."""


def on_host(torch, make, kind):
    """The model that make() returns, its weights of this kind and different from each other."""
    with torch.device("meta"):
        model = make().to(kind)
    model = model.to_empty(device="cpu").eval()
    pattern = torch.linspace(-0.02, 0.02, 1021, dtype=kind)
    for number, weights in enumerate(model.parameters()):
        if weights.dim() < 2:
            weights.data.fill_(1.0)
            continue
        rows = weights.data.view(weights.shape[0], -1)
        rows.copy_(pattern.roll(number).repeat(rows.shape[1] // 1021 + 1)[:rows.shape[1]])
        rows.mul_(pattern.repeat(len(rows) // 1021 + 1)[:len(rows), None] * 50)
    for buffer in model.buffers():
        buffer.data.fill_(0.5)
    return model


def llama(torch, transformers, chosen):
    """A Llama of chosen.layers layers of width chosen.hidden."""
    config = transformers.LlamaConfig(
        hidden_size=chosen.hidden, intermediate_size=chosen.hidden * 43 // 16,
        num_hidden_layers=chosen.layers, num_attention_heads=max(chosen.hidden // 128, 1),
        vocab_size=8192)
    return on_host(torch, lambda: transformers.LlamaForCausalLM(config), torch.bfloat16)
