"""An honest ledger of speculative decoding, from what vLLM servers already emit."""

__version__ = "0.1.0"
