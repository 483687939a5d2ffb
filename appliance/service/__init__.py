"""The service: a hardened interface in OpenAI's shapes around one model, its answers attested.

`settings` and `service` say what there is, `app` what is refused before a route is asked, `server`
how it listens and ends. CONFIGURATION.md beside this file is made from the settings.
"""
