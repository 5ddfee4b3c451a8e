// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "custom-storage",
  dependencies: [.package(name: "perdure", path: "../..")],
  targets: [
    .executableTarget(
      name: "CustomStorage",
      dependencies: [
        .product(name: "Perdure", package: "perdure"),
        .product(name: "PerdureTestKit", package: "perdure"),
      ]
    )
  ]
)
