# operands.awk: ops.def becomes operands.h, which names the places of operands in dg_args.t:
#     OP( conv2d, "x w:f b?:f -> y", ...
#     enum { DG_CONV2D_X, DG_CONV2D_W, DG_CONV2D_B, DG_CONV2D_Y };
# A variadic operand is named where it begins; what follows it has no fixed place and no name.
BEGIN {
  print "/* operands.h: made by operands.awk from ops.def: places of operands in dg_args.t. */"
  print "#ifndef DG_KERNELS_OPERANDS_H"
  print "#define DG_KERNELS_OPERANDS_H"
  print ""
}
/^OP\(/ {
  split($0, part, "\"")
  op = part[1]
  gsub(/OP\(|[ ,]/, "", op)
  gsub(/->/, " ", part[2])
  n = split(part[2], word, " ")
  list = ""
  for (i = 1; i <= n; i++) {
    variadic = word[i] ~ /\*/
    sub(/[?*:(].*/, "", word[i])
    name = toupper("DG_" op "_" word[i])
    if (name in seen) {
      print "operands.awk: " op " and " seen[name] " both have " name > "/dev/stderr"
      exit 1
    }
    seen[name] = op
    list = list (i > 1 ? ", " : "") name
    if (variadic) break
  }
  if (n) print "enum { " list " };"
}
END { print "\n#endif" }
