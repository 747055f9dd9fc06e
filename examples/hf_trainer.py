"""Train a small GPT-2 on Python's own sources with the Hugging Face Trainer, nothing downloaded.

zlaunch run --cpu 2 --recipe zero2 examples/hf_trainer.py
"""

import argparse
import tempfile

import torch
from bytegpt import VOCABULARY, Windows, library_text
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Examples(Dataset):
    """The windows under the names that the Trainer expects; the model shifts the labels itself."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens, _ = self.windows[index]
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=4, help="sequences for each worker")
    parser.add_argument("--accumulate", type=int, default=4, help="micro batches per step")
    parser.add_argument("--block", type=int, default=128, help="sequence length in bytes")
    parser.add_argument("--precision", choices=["bf16", "fp16", "fp32"], default="bf16")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as output:
        training = TrainingArguments(
            output_dir=output,
            max_steps=arguments.steps,
            per_device_train_batch_size=arguments.batch,
            gradient_accumulation_steps=arguments.accumulate,
            learning_rate=1e-3,
            warmup_steps=10,
            logging_steps=10,
            bf16=arguments.precision == "bf16",
            fp16=arguments.precision == "fp16",
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
            save_strategy="no",
        )
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=VOCABULARY,
                n_positions=arguments.block,
                n_embd=128,
                n_layer=4,
                n_head=4,
                bos_token_id=None,
                eos_token_id=None,
            )
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=Examples(Windows(library_text(), arguments.block)),
        )
        result = trainer.train()
    trainer.accelerator.print(
        f"trained in {type(trainer.model_wrapped).__name__}, "
        f"mean loss {result.training_loss:.3f} over {result.global_step} steps"
    )
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()
