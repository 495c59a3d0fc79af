# ref_sources are compiled twice (f32, f64), host_simd_sources once per instruction set, libhost once.
libhost_la_SOURCES +=
ref_sources +=
host_simd_sources +=
