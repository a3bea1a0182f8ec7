# SPDX-License-Identifier: MIT
"""A film in frames of 1080p: a decoder fills a ring of host buffers, each frame goes to the GPU, is
scaled and compared with the one before, and every tenth comes back as a picture."""

import app


def main():
    chosen = app.options(__doc__, frames=300, ring=8, steps=3)
    torch, device = app.torch_for(chosen)
    numpy = app.packages("numpy")
    ring = [numpy.zeros((1080, 1920, 3), dtype=numpy.uint8) for _ in range(chosen.ring)]

    def decode(number, frame):
        """As a decoder: a part of the picture is new."""
        first = number * 13 % 1000
        frame[first:first + 80] = number % 251
        return frame

    def play(step):
        before, moved, pictures = None, [], []
        for number in range(chosen.frames):
            frame = decode(number + step, ring[number % chosen.ring])
            picture = torch.from_numpy(frame).to(device).permute(2, 0, 1)[None].float()
            small = torch.nn.functional.avg_pool2d(picture, 4)
            if before is not None:
                moved.append((small - before).abs().mean())
            before = small
            if number % 10 == 0:
                pictures.append(picture[0].byte().cpu())
        return torch.stack(moved).cpu(), torch.stack(pictures)

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), play)
    app.say(app.digest(*found), seconds)


if __name__ == "__main__":
    main()
