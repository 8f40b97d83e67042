"""Models that make images."""

import torch
import torch.nn.functional as F
from torch import nn

from .common import Trained, adam, model


def up_layer(inputs, outputs, stride, padding):
    return nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)


class Wrapped(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Adversaries(nn.Module):
    def start(self):
        self.generator_opt = adam(self.generator.parameters())
        self.discriminator_opt = adam(self.discriminator.parameters())
        return self

    def forward(self, batch):
        return self.generator(batch["z"])

    def update(self, optimizer, net, loss):
        parameters = list(net.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters, retain_graph=True)):
            p.grad = g
        optimizer.step()


@model("dcgan")
class DCGAN(Adversaries):
    def __init__(self, bench):
        super().__init__()
        c, latent = (16, 64) if bench else (2, 16)
        self.generator = Wrapped(
            up_layer(latent, 4 * c, 1, 0), nn.BatchNorm2d(4 * c), nn.ReLU(), up_layer(4 * c, 2 * c, 2, 1),
            nn.BatchNorm2d(2 * c), nn.ReLU(), up_layer(2 * c, c, 2, 1), nn.BatchNorm2d(c), nn.ReLU(),
            up_layer(c, 3, 2, 1), nn.Tanh())
        self.discriminator = Wrapped(
            nn.Conv2d(3, c, 4, 2, 1, bias=False), nn.LeakyReLU(0.2), nn.Conv2d(c, 2 * c, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * c), nn.LeakyReLU(0.2), nn.Conv2d(2 * c, 4 * c, 4, 2, 1, bias=False),
            nn.BatchNorm2d(4 * c), nn.LeakyReLU(0.2), nn.Conv2d(4 * c, 1, 4, bias=False), nn.Flatten(0))

    def step(self, batch):
        made = self.generator(batch["z"])
        real, fake = self.discriminator(batch["images"]), self.discriminator(made.detach())
        bce = F.binary_cross_entropy_with_logits
        d_loss = bce(real, torch.ones_like(real)) + bce(fake, torch.zeros_like(fake))
        self.update(self.discriminator_opt, self.discriminator, d_loss)
        judged = self.discriminator(made)
        g_loss = bce(judged, torch.ones_like(judged))
        self.update(self.generator_opt, self.generator, g_loss)
        return [d_loss.detach(), g_loss.detach()]


def mlp(inputs, hidden, outputs):
    return Wrapped(nn.Linear(inputs, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
                   nn.Linear(hidden, outputs))


@model("wgan_gp")
class WGAN(Adversaries):
    def __init__(self, bench):
        super().__init__()
        hidden, width = (256, 128) if bench else (24, 8)
        self.generator, self.discriminator = mlp(16, hidden, width), mlp(width, hidden, 1)

    def step(self, batch):
        critic, mix = self.discriminator, batch["mix"]
        made = self.generator(batch["z"])
        fake = made.detach()
        between = (mix * batch["real"] + (1 - mix) * fake).requires_grad_()
        slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
        penalty = (slope.norm(dim=1) - 1).square().mean()
        c_loss = critic(fake).mean() - critic(batch["real"]).mean() + 10 * penalty
        self.update(self.discriminator_opt, critic, c_loss)
        g_loss = -critic(made).mean()
        self.update(self.generator_opt, self.generator, g_loss)
        return [c_loss.detach(), g_loss.detach()]


@model("vae")
class VAE(Trained):
    def __init__(self, bench):
        super().__init__()
        c, side = (32, 28) if bench else (4, 8)
        latent, flat = 16, 2 * c * side * side // 16
        self.shape = (2 * c, side // 4, side // 4)
        self.encoder = nn.Sequential(nn.Conv2d(1, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, 2 * c, 3, 2, 1), nn.ReLU(),
                                     nn.Flatten())
        self.decoder = nn.Sequential(nn.ConvTranspose2d(2 * c, c, 3, 2, 1, 1), nn.ReLU(),
                                     nn.ConvTranspose2d(c, 1, 3, 2, 1, 1))
        self.mean, self.log_variance = nn.Linear(flat, latent), nn.Linear(flat, latent)
        self.grow = nn.Linear(latent, flat)

    def parts(self, batch):
        seen = self.encoder(batch["x"])
        mean, log_variance = self.mean(seen), self.log_variance(seen)
        z = mean + torch.exp(log_variance * 0.5) * batch["noise"]
        return self.decoder(F.relu(self.grow(z)).unflatten(1, self.shape)), mean, log_variance

    def forward(self, batch):
        return self.parts(batch)[0]

    def loss(self, batch):
        image, mean, log_variance = self.parts(batch)
        kl = (log_variance.exp() + mean.square() - 1 - log_variance).sum() * 0.5
        lost = F.binary_cross_entropy_with_logits(image, batch["x"], reduction="sum")
        return (lost + kl) / batch["x"].numel()
