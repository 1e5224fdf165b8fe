/// The version of the product: one number for all its programs.
package enum ProductVersion {
    package static let text = "0.1.0"
}
