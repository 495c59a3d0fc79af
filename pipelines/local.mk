# Installed under $(pkgdatadir), folders kept.
nobase_dist_pkgdata_DATA +=
