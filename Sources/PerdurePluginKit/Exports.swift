@_exported public import PerdureValue
