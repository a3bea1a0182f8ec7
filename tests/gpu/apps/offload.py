# SPDX-License-Identifier: MIT
"""Forwards of a random Llama whose weights accelerate.cpu_offload keeps in host memory.

Each forward brings all weights to the GPU, layer by layer.
"""

import app
import random_model


def main():
    chosen = app.options(__doc__, layers=12, hidden=4096, tokens=32, steps=5)
    accelerate, transformers = app.packages("accelerate", "transformers")
    torch, device = app.torch_for(chosen)
    config = transformers.LlamaConfig(
        hidden_size=chosen.hidden, intermediate_size=chosen.hidden * 43 // 16,
        num_hidden_layers=chosen.layers, num_attention_heads=max(chosen.hidden // 128, 1),
        vocab_size=8192)
    model = random_model.on_host(torch, lambda: transformers.LlamaForCausalLM(config),
                                 torch.bfloat16)
    model = accelerate.cpu_offload(model, device)
    ids = torch.arange(chosen.tokens).view(1, -1).to(device)
    with torch.no_grad():
        seconds, logits = app.timed(chosen.steps, app.waiter(torch, device),
                                    lambda _: model(ids).logits)
    app.say(app.digest(logits.float()), seconds)


if __name__ == "__main__":
    main()
