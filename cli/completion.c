/* completion.c: generates completions for bash and zsh from the tables of verbs and options.
 * Placeholders tell how a word is completed (cli.h). */
#include <ctype.h>
#include <string.h>

#include "cli/cli.h"

typedef struct place { /* a word that is not an option */
    const char *word;
    size_t n;
    bool repeats;
} place;

static bool is_among(const char *const *list, const char *word, size_t n)
{
    for (; *list; list++)
        if (strlen(*list) == n && memcmp(*list, word, n) == 0)
            return true;
    return false;
}

/* How a placeholder is completed: file, dir, class, verb, let, typed, or "" for small words, which
 * complete as themselves. */
static const char *kind_of(const char *word, size_t n)
{
    static const char *const files[] = { "FILE",     "IMAGE",   "IMAGE|VIDEO", "PICTURE", "OTHER",
                                         "PIPELINE", "LIBRARY", "PATH",        NULL };
    static const char *const folders[] = { "DIR", "RUN", "[=auto|DIR]", NULL };

    if (is_among(files, word, n))
        return "file";
    if (is_among(folders, word, n))
        return "dir";
    if (is_among((const char *const[]){ "CLASS", NULL }, word, n))
        return "class";
    if (is_among((const char *const[]){ "VERB", NULL }, word, n))
        return "verb";
    if (is_among((const char *const[]){ "NAME=VALUE", NULL }, word, n))
        return "let";
    return islower((unsigned char)*word) && !memchr(word, '=', n) ? "" : "typed";
}

/* The next word of a verb's args that is not an option; false at the end. */
static bool next_place(const char **args, place *out)
{
    const char *p = *args;

    for (;;) {
        p += strspn(p, " ");
        bool bracket = *p == '[';

        if (bracket && (p[1] == '-' || strncmp(p, "[OPTIONS", 8) == 0)) { /* skip [--out DIR] */
            p += strcspn(p, "]");
            p += strcspn(p, " ");
        } else if (*p == '-') { /* skip --weights FILE */
            p += strcspn(p, " ");
            p += strspn(p, " ");
            p += strcspn(p, " ");
        } else {
            p += bracket;
            *out = (place){ p, strcspn(p, " ].:"), false };
            p += out->n;
            out->repeats = strncmp(p, "...", 3) == 0 || strncmp(p, "]...", 4) == 0;
            p += strcspn(p, " ");
            *args = p;
            return out->n > 0;
        }
    }
}

static const char *value_of(const dg_option *o)
{
    return o->kind == DG_OPTION_WORD ? o->words : o->value;
}

/* options.c accepts -o for --out */
static bool has_letter(const dg_option *o)
{
    return strcmp(o->name, "out") == 0;
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void add_kind(dg_str *out, const char *word, size_t n)
{
    const char *kind = kind_of(word, n);

    if (*kind)
        dg_str_add(out, kind);
    else
        dg_str_add_n(out, word, n);
}

static void add_bash_option(dg_str *out, const char *name, const dg_option *o)
{
    dg_str_fmt(out, "%s%s", name,
               o->kind == DG_OPTION_FLAG    ? " "
               : o->kind == DG_OPTION_MAYBE ? "=:"
                                            : "=");
    if (o->kind == DG_OPTION_FLAG)
        return;
    add_kind(out, value_of(o), strlen(value_of(o)));
    dg_str_add(out, " ");
}

/* A row of the script: run) echo '--out=dir -o=dir --resume=:dir --force -- file' ;; */
static void add_bash_row(dg_str *out, const dg_verb *v)
{
    const char *args = v->args;
    place p;

    dg_str_fmt(out, "    %s) echo '", v->name);
    for (const dg_option *o = v->options; o && o->name; o++) {
        dg_str_add(out, "--");
        add_bash_option(out, o->name, o);
        if (has_letter(o))
            add_bash_option(out, "-o", o);
    }
    dg_str_add(out, "--help --");
    while (next_place(&args, &p)) {
        dg_str_add(out, " ");
        add_kind(out, p.word, p.n);
        dg_str_add(out, p.repeats ? "..." : "");
    }
    dg_str_add(out, "' ;;\n");
}

static void add_bash_verbs(dg_str *out)
{
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++)
        for (const dg_verb *const *v = g->verbs; *v; v++)
            dg_str_fmt(out, " %s", (*v)->name);
}

static const char *const bash_begin =
    "# Completions of detrgraph for bash, printed by `detrgraph help --format bash`.\n"
    "\n"
    "# A verb's options, --name, --name=WHAT, or --name=:WHAT where it may stand alone, then what "
    "its words are.\n"
    "_detrgraph_row() {\n"
    "  case $1 in\n";

static const char *const bash_end =
    "  esac\n"
    "}\n"
    "\n"
    "# The names that the <let> elements of a pipeline on the line define.\n"
    "_detrgraph_lets() {\n"
    "  local file\n"
    "  for file in \"${COMP_WORDS[@]}\"; do\n"
    "    case $file in *.xml) [ -r \"$file\" ] && tr '\\n' ' ' <\"$file\" | grep -o '<let [^>]*>' "
    "| grep -oE '[A-Za-z_][A-Za-z0-9_]*=' ;; esac\n"
    "  done\n"
    "}\n"
    "\n"
    "_detrgraph() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} row kind= maybe= "
    "equals= word kinds place=0 i\n"
    "  COMPREPLY=()\n"
    "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$_detrgraph_verbs --help --version\" -- \"$cur\")\n"
    "    return\n"
    "  fi\n"
    "  row=$(_detrgraph_row \"${COMP_WORDS[1]}\")\n"
    "  if [ \"$cur\" = = ]; then cur= equals=yes; elif [ \"$before\" = = ]; then "
    "before=${COMP_WORDS[COMP_CWORD-2]} equals=yes; fi\n"
    "  for word in ${row%% -- *}; do\n"
    "    [ \"${word%%=*}\" = \"$before\" ] && [ \"$word\" != \"$before\" ] && kind=${word#*=}\n"
    "  done\n"
    "  case $kind in :*) maybe=${kind#:} kind=${equals:+${kind#:}} ;; esac\n"
    "  if [ -z \"$kind\" ] && [ \"${COMP_WORDS[COMP_CWORD-1]}\" = = ]; then\n"
    "    kind=file # the value after --set name=\n"
    "  elif [ -z \"$kind\" ] && [ \"${cur#-}\" != \"$cur\" ]; then\n"
    "    row=${row%% -- *}\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$(for word in $row; do echo \"${word%%=*}\"; "
    "done)\" -- \"$cur\")\n"
    "    return\n"
    "  elif [ -z \"$kind\" ]; then\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "      word=${COMP_WORDS[i]}\n"
    "      case $word in\n"
    "        =) i=$((i + 1)) ;;\n"
    "        -*)\n"
    "          case \" $row\" in\n"
    "            *\" $word=:\"*) if [ \"${COMP_WORDS[i+1]}\" = auto ] || [ -d "
    "\"${COMP_WORDS[i+1]}\" ]; then i=$((i + 1)); fi ;;\n"
    "            *\" $word=\"*) [ \"${COMP_WORDS[i+1]}\" = = ] || i=$((i + 1)) ;;\n"
    "          esac ;;\n"
    "        *) place=$((place + 1)) ;;\n"
    "      esac\n"
    "    done\n"
    "    read -ra kinds <<<\"${row#*--help --}\"\n"
    "    for ((i = 0; i < ${#kinds[@]}; i++)); do\n"
    "      case ${kinds[i]} in *...) [ $place -ge $i ] && kind=${kinds[i]%...} ;; *) [ $place -eq "
    "$i ] && kind=${kinds[i]} ;; esac\n"
    "    done\n"
    "    kind=${kind:-$maybe}\n"
    "  fi\n"
    "  case $kind in\n"
    "    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") "
    ";;\n"
    "    dir) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") "
    ";;\n"
    "    let) compopt -o nospace 2>/dev/null; mapfile -t COMPREPLY < <(compgen -W "
    "\"$(_detrgraph_lets)\" -- \"$cur\") ;;\n"
    "    class) mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\" nodes 2>/dev/null | "
    "sed -nE 's/^  ([a-z0-9_.]+) .*/\\1/p')\" -- \"$cur\") ;;\n"
    "    verb) mapfile -t COMPREPLY < <(compgen -W \"$_detrgraph_verbs\" -- \"$cur\") ;;\n"
    "    typed | '') ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"${kind//|/ }\" -- \"$cur\") ;;\n"
    "  esac\n"
    "}\n"
    "complete -F _detrgraph detrgraph\n";

void dg_help_bash(dg_str *out)
{
    dg_str_add(out, bash_begin);
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++)
        for (const dg_verb *const *v = g->verbs; *v; v++)
            add_bash_row(out, *v);
    dg_str_add(out, bash_end);
    dg_str_add(out, "_detrgraph_verbs='");
    add_bash_verbs(out);
    dg_str_add(out, "'\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Appends text inside '...' of a specification for _arguments or _describe. */
static void add_zsh_text(dg_str *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'')
            dg_str_add(out, "'\\''");
        else if (text[i] != '`')
            dg_str_fmt(out, "%s%c", strchr("[]:\\", text[i]) ? "\\" : "", text[i]);
    }
}

/* Appends :WORD:completion. */
static void add_zsh_action(dg_str *out, const char *word, size_t n)
{
    static const struct {
        const char *kind, *action;
    } actions[] = { { "file", "_files" },
                    { "dir", "_files -/" },
                    { "class", "_detrgraph_classes" },
                    { "verb", "_detrgraph_verbs" },
                    { "let", "_detrgraph_lets" },
                    { "typed", " " } };
    const char *kind = kind_of(word, n);

    dg_str_add(out, ":");
    add_zsh_text(out, word, n);
    dg_str_add(out, ":");
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].kind, kind) == 0)
            dg_str_add(out, actions[i].action);
    if (*kind)
        return;
    dg_str_add(out, "(");
    for (size_t i = 0; i < n; i++)
        dg_str_fmt(out, "%c", word[i] == '|' ? ' ' : word[i]);
    dg_str_add(out, ")");
}

/* before: (what it excludes), or "*" if it may be repeated. */
static void add_zsh_option(dg_str *out, const char *before, const char *name, const dg_option *o)
{
    dg_str_fmt(out, " \\\n      '%s%s[", before, name);
    add_zsh_text(out, o->doc, strlen(o->doc));
    dg_str_add(out, o->kind == DG_OPTION_MAYBE ? "]:" : "]");
    if (o->kind != DG_OPTION_FLAG)
        add_zsh_action(out, value_of(o), strlen(value_of(o)));
    dg_str_add(out, "'");
}

static void add_zsh_row(dg_str *out, const dg_verb *v)
{
    const char *args = v->args;
    place p;

    dg_str_fmt(out, "    %s) _arguments", v->name);
    for (const dg_option *o = v->options; o && o->name; o++) {
        dg_str name = { 0 };

        dg_str_fmt(&name, "--%s%s", o->name,
                   o->kind == DG_OPTION_FLAG    ? ""
                   : o->kind == DG_OPTION_MAYBE ? "=-"
                                                : "=");
        add_zsh_option(out,
                       o->kind == DG_OPTION_LIST ? "*"
                       : has_letter(o)           ? "(-o)"
                                                 : "",
                       name.s, o);
        if (has_letter(o))
            add_zsh_option(out, "(--out)", "-o", o);
        dg_str_free(&name);
    }
    dg_str_add(out, " \\\n      '(- *)--help[the options of this verb]'");
    for (int i = 1; next_place(&args, &p); i++) {
        dg_str_add(out, " \\\n      '");
        dg_str_fmt(out, p.repeats ? "*" : "%d", i);
        add_zsh_action(out, p.word, p.n);
        dg_str_add(out, "'");
    }
    dg_str_add(out, " ;;\n");
}

static const char *const zsh_begin =
    "#compdef detrgraph\n"
    "# Completions of detrgraph for zsh, printed by `detrgraph help --format zsh`.\n"
    "\n"
    "# The names that the <let> elements of a pipeline on the line define.\n"
    "_detrgraph_lets() {\n"
    "  local file\n"
    "  local -a names\n"
    "  for file in ${(M)words:#*.xml}; do\n"
    "    [[ -r $file ]] && names+=(${(f)\"$(tr '\\n' ' ' <$file | grep -o '<let [^>]*>' | grep -oE "
    "'[A-Za-z_][A-Za-z0-9_]*=')\"})\n"
    "  done\n"
    "  compadd -S '' -a names\n"
    "}\n"
    "_detrgraph_classes() {\n"
    "  local -a names=(${(f)\"$(detrgraph nodes 2>/dev/null | sed -nE 's/^  ([a-z0-9_.]+) "
    ".*/\\1/p')\"})\n"
    "  compadd -a names\n"
    "}\n"
    "_detrgraph_verbs() {\n"
    "  local -a verbs=(\n";

static const char *const zsh_middle = "  )\n"
                                      "  _describe verb verbs\n"
                                      "}\n"
                                      "_detrgraph() {\n"
                                      "  if (( CURRENT == 2 )); then\n"
                                      "    _detrgraph_verbs\n"
                                      "    return\n"
                                      "  fi\n"
                                      "  shift words\n"
                                      "  (( CURRENT-- ))\n"
                                      "  case $words[1] in\n";

static const char *const zsh_end = "  esac\n"
                                   "}\n"
                                   "_detrgraph \"$@\"\n";

void dg_help_zsh(dg_str *out)
{
    dg_str_add(out, zsh_begin);
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++)
        for (const dg_verb *const *v = g->verbs; *v; v++) {
            dg_str_fmt(out, "    '%s:", (*v)->name);
            add_zsh_text(out, (*v)->brief, strlen((*v)->brief));
            dg_str_add(out, "'\n");
        }
    dg_str_add(out, zsh_middle);
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++)
        for (const dg_verb *const *v = g->verbs; *v; v++)
            add_zsh_row(out, *v);
    dg_str_add(out, zsh_end);
}
