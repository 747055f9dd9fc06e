"""A byte-level GPT and the text it learns: what the three examples share."""

import sysconfig
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

VOCABULARY = 256  # one token per byte


class Block(nn.Module):
    """Attention to the past, then a small network on each position."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x))
        return x + self.mlp(x)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(y.transpose(1, 2).reshape(batch, length, width))


class ByteGPT(nn.Module):
    """Called with tokens and the tokens that follow them, returns the mean loss."""

    def __init__(
        self, *, layers: int = 4, width: int = 128, heads: int = 4, block: int = 128
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(positions))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def library_text() -> Tensor:
    """Return the sources of the standard library's top-level modules, about 5 MB of bytes."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"\n".join(path.read_bytes() for path in modules)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


class Windows(Dataset):
    """The text cut into windows of `block` tokens, each with the tokens that follow."""

    def __init__(self, text: Tensor, block: int) -> None:
        self.text = text
        self.block = block

    def __len__(self) -> int:
        return (len(self.text) - 1) // self.block

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * self.block
        window = self.text[start : start + self.block + 1].long()
        return window[:-1], window[1:]
