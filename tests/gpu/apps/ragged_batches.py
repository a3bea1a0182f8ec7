# SPDX-License-Identifier: MIT
"""Sentences of all lengths, padded batch by batch: no two host blocks have one size, from 0.2 to
50 MiB, and each is copied once.  A recurrent network reads them."""

import app


def main():
    chosen = app.options(__doc__, batches=60, rows=64, width=256, steps=3)
    torch, device = app.torch_for(chosen)
    generator = torch.Generator().manual_seed(3)
    longest = torch.randint(3, 800, (chosen.batches,), generator=generator).tolist()
    mixer = torch.nn.Linear(chosen.width, chosen.width).to(device)

    def read(step):
        found = []
        with torch.no_grad():
            for number, most in enumerate(longest):
                lengths = torch.arange(chosen.rows) * (number + step) % most + 1
                sentences = [torch.full((int(length), chosen.width), float(length) / most)
                             for length in lengths]
                padded = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True).to(device)
                mask = torch.arange(padded.shape[1], device=device) < lengths.to(device)[:, None]
                states = torch.tanh(mixer(padded)) * mask[:, :, None]
                found.append(states.sum(1).mean(0))
        return torch.stack(found).cpu()

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), read)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
