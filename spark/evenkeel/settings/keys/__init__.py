"""The keys themselves, one module per concern; `evenkeel.settings.registry` puts them together."""
