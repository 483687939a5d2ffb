"""How keys and values are kept: binary16 in `wh1` (NUMERICS N9), binary32 in `wh1-float`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simd.code import F16, F32, F32X16, Code, IrType, Val, vec

BLOCK_POSITIONS: Final = 64
KEYS_IN_VECTOR: Final = 16


@dataclass(frozen=True, slots=True)
class CacheNumber:
    """The format of one cached number."""

    element: IrType
    size_bytes: int

    def bytes(self, count: Val) -> Val:
        """Return the size of `count` numbers."""
        return count * self.size_bytes

    def narrow(self, values: Val) -> Val:
        """Round f32 lanes to the cache's format."""
        return (
            values.fptrunc(vec(self.element, values.type.count)) if self.size_bytes == 2 else values
        )

    def widen(self, values: Val) -> Val:
        """Return cached lanes as f32, exactly."""
        return values.fpext(vec(F32, values.type.count)) if self.size_bytes == 2 else values

    def load(self, code: Code, address: Val) -> Val:
        """Read sixteen cached numbers as f32."""
        if self.size_bytes == 4:
            return code.load(F32X16, address)
        return code.load(vec(F16, 16), address).fpext(F32X16)


HALF: Final = CacheNumber(F16, 2)
SINGLE: Final = CacheNumber(F32, 4)
