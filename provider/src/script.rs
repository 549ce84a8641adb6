//! The scripted model: plays a scenario from a file in the place of a vendor.
