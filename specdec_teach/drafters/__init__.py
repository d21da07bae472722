"""Everything that can propose tokens. The verifier does not care which one did.

They share one protocol (`specdec_teach.drafters.base`): state is kept per sequence and follows the committed tokens.
"""
