# compile_commands.awk: what `make -n` prints becomes compile_commands.json, one command a source.
#     awk -v dir=BUILD-FOLDER
# libtool, ccache, dependency files and shell are left out. Of the variants of a source (two
# precisions, three instruction sets) the first one is taken.
/ -c -o [^ ]+\.l?o / {
  sub(/^.*--mode=compile +/, "")
  sub(/^ *ccache +/, "")
  sub(/ -MT .* -c -o /, " -c -o ")
  gsub(/`[^`]*`/, "")
  sub(/ *(&&)? *\\?$/, "")
  gsub(/ +/, " ")
  file = $NF
  if (!seen[file]++) {
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    row[n++] = "  {\"directory\": \"" dir "\", \"file\": \"" file "\",\n   \"command\": \"" $0 "\"}"
  }
}
END {
  print "["
  for (i = 0; i < n; i++) print row[i] (i < n - 1 ? "," : "")
  print "]"
}
