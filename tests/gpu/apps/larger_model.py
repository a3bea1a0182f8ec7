# SPDX-License-Identifier: MIT
"""A random Llama that generates and reads prompts, or whose adapters are trained.

With --budget its weights have so many MiB of the GPU, and accelerate brings the others from host
memory, which is pinned with --pinned 1.  Else all are put on the GPU.
"""

import time

import app
import random_model

RANK = 16  # of the adapters


def offload(accelerate, torch, model, chosen, device):
    """Gives accelerate the model, of which the GPU may hold so much."""
    if device.type == "cpu":
        return accelerate.cpu_offload(model, device)
    most = {0: chosen.budget * app.MIB, "cpu": 1 << 40}
    places = accelerate.infer_auto_device_map(model, most,
                                              no_split_module_classes=["LlamaDecoderLayer"])
    for name, weights in model.named_parameters():
        far = [part for part, where in places.items() if where == "cpu"]
        if chosen.pinned and name.startswith(tuple(part + "." for part in far)):
            weights.data = weights.data.pin_memory()
    return accelerate.dispatch_model(model, places)


class Clock:
    """Asked by generate() after each token; takes the times."""

    def __init__(self, torch, wait):
        self.torch, self.wait, self.times = torch, wait, []

    def __call__(self, ids, scores, **_):
        self.wait()
        self.times.append(time.perf_counter())
        return self.torch.zeros(len(ids), dtype=self.torch.bool, device=ids.device)

    def took(self):
        """Seconds of a later token, the median."""
        each = sorted(after - before for before, after in zip(self.times, self.times[1:]))
        return each[len(each) // 2]


def generate(torch, model, chosen, device, wait, batch):
    """The seconds of all, the tokens, and the seconds of a later one."""
    clock = Clock(torch, wait)
    ids = torch.arange(8 * batch, device=device).view(batch, 8)
    seconds, found = app.timed(1, wait, lambda _: model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0,
        max_new_tokens=chosen.tokens, min_new_tokens=chosen.tokens, stopping_criteria=[clock]))
    return seconds[0], found, clock.took()


def infer(torch, model, chosen, device, wait):
    """Tokens for one and for a batch, and the reading of a batch of prompts."""
    batch = chosen.batch
    prompts = torch.arange(batch * chosen.prompt, device=device).view(batch, -1) % 8192
    with torch.no_grad():
        seconds, first = app.timed(
            1, wait, lambda _: model(prompts[:, :8], use_cache=False, logits_to_keep=1).logits)
        all_1, one, token_1 = generate(torch, model, chosen, device, wait, 1)
        all_n, many, token_n = generate(torch, model, chosen, device, wait, batch)
        reading, logits = app.timed(
            chosen.reads, wait, lambda _: model(prompts, use_cache=False, logits_to_keep=1).logits)
    return ([*seconds, all_1, all_n, *reading], (first.float(), one, many, logits.float()),
            {"token_of_1": token_1, f"token_of_{batch}": token_n,
             "prompts": sorted(reading)[len(reading) // 2]})


def adapters(torch, model, chosen, device):
    """Trainable matrices beside two projections of each layer, which stay on the GPU."""
    made = []
    for layer in model.model.layers:
        for part in (layer.self_attn.q_proj, layer.self_attn.v_proj):
            down = (torch.randn(chosen.hidden, RANK) / chosen.hidden ** 0.5).to(device).bfloat16()
            up = torch.zeros(RANK, chosen.hidden, device=device, dtype=torch.bfloat16)
            made += [down.requires_grad_(), up.requires_grad_()]
            part.register_forward_hook(
                lambda _, given, out, down=down, up=up: out + given[0] @ down @ up)
    return made


def train(torch, model, chosen, device, wait):
    """Steps that change the adapters alone; what a layer computes is computed again for them."""
    trained = adapters(torch, model, chosen, device)
    optimizer = torch.optim.SGD(trained, lr=0.5)
    ids = torch.arange(8 * chosen.prompt, device=device).view(8, -1) * 7 % 8192
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})

    def step(_):
        loss = model(ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach().float()

    seconds, loss = app.timed(chosen.steps, wait, step)
    return seconds, (loss, torch.cat([each.detach().float().reshape(-1) for each in trained])), {}


def main():
    chosen = app.options(__doc__, layers=12, hidden=4096, tokens=16, batch=16, prompt=256, reads=3,
                         steps=4, train=0, budget=0, pinned=0)
    accelerate, transformers = app.packages("accelerate", "transformers")
    torch, device = app.torch_for(chosen)
    model = random_model.llama(torch, transformers, chosen).requires_grad_(False)
    begun = time.perf_counter()
    model = offload(accelerate, torch, model, chosen, device) if chosen.budget else \
        model.to(device)
    loaded = time.perf_counter() - begun
    work = train if chosen.train else infer
    seconds, found, more = work(torch, model, chosen, device, app.waiter(torch, device))
    if not all(bool(each.isfinite().all()) for each in found):
        raise SystemExit("the results are no numbers")
    app.say(app.digest(*found), seconds, load=loaded, **more)


if __name__ == "__main__":
    main()
