@_exported public import PerdureModel
@_exported public import PerdureValue
