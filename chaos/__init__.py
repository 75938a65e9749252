"""Faults against running pipelines, and a verifier that knows nothing of Eagre."""
