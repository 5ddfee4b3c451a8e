// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "custom-environment",
  dependencies: [.package(name: "perdure", path: "../..")],
  targets: [
    .executableTarget(
      name: "CustomEnvironment",
      dependencies: [
        .product(name: "Perdure", package: "perdure"),
        .product(name: "PerdureTestKit", package: "perdure"),
      ]
    )
  ]
)
