# table.awk: the ops that have CUDA kernels, one row each, from ops.def and the sources of this folder.
#     DG_CUDA(where, NULL, where);  or another macro, as UNARY(exp, exp(x))
#     K( where )
# A kernel begins a line. One whose name no row of ops.def has is an error.
FILENAME ~ /ops\.def$/ {
  if (/^OP\(/) {
    gsub(/^OP\( *|,.*/, "")
    is_op[$0] = 1
  }
  next
}
/^[A-Z_]+\([a-z0-9_]+[,)]/ && !/^[A-Z_]*KERNEL(_MANY)?\(/ {
  gsub(/^[A-Z_]+\(|[,)].*/, "")
  if (!is_op[$0]) {
    print FILENAME ":" FNR ": no op of kernels/ops.def is called " $0 > "/dev/stderr"
    exit failed = 1
  }
  rows = rows "K( " $0 " )\n"
}
END {
  if (failed) exit 1
  printf "/* table.def: made by table.awk: the ops that have CUDA kernels. */\n%s", rows
}
