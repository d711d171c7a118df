import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { listFiles } from './documents.ts'

/** A word or phrase that the project no longer uses. */
interface Retired {
  /** The words to find. A space stands for any white space, including a line break inside a comment. */
  pattern: RegExp
  instead: string
  /** The prefix of the paths to check; every file by default. */
  within?: string
}

/** Names that the field's own term has replaced. Case counts. */
const NAMES: readonly Retired[] = [
  { pattern: /\bCheckout\b|\bcheckout\.ts\b|\bthis\.checkout\b/, instead: 'OrderBatcher' },
  { pattern: /\b[Dd]esk\b/, instead: 'BatchDecision' },
  { pattern: /\b[Ff]indings\b/, instead: 'ExistingState', within: 'src/orders/placing/' },
  { pattern: /[Pp]romisedStock/, instead: 'AssumedStock' },
  { pattern: /\b[Cc]aution\b|\.tries\(/, instead: 'OptimisticBackoff.shouldTry' },
  { pattern: /\b[Ii]nsist(s|ed|OnLocks)?\b/, instead: 'abort_unless, lockAllOrAbort; in a test retryUntil' },
  { pattern: /\bisUnmet\b/, instead: 'isAbortedAssumption' },
  { pattern: /\bnameOf(Key|Buyer)/, instead: 'lockKeyOf…' },
  { pattern: /\bfillIn\b/, instead: 'renderResponse' },
  { pattern: /\bframe\b/, instead: 'responseTemplate', within: 'src/orders/' },
  { pattern: /\b[Bb]ell\b|\bBell[A-Z]|\.silence\(/, instead: 'WakeSignal (notify, reset)' },
  { pattern: /\bfollow\(|\bfollow\.ts\b/, instead: 'withReconnect' },
  { pattern: /\b[Ss]tretch(es)?\b/, instead: 'SequenceRange, range' },
  { pattern: /MadeAnew|StreamUnfit/, instead: 'StreamRecreated, StreamMisconfigured' },
  { pattern: /\bsettle(Down)?\b/, instead: 'awaitInFlight' },
  { pattern: /\bparked[_-]changes\b|\bparkedChanges\b|\bParked[A-Z]/, instead: 'dead_letters' },
  { pattern: /\b[Ll]edgers?\b/, instead: 'ComparisonTables' },
  { pattern: /\b[Ff]acts\b/, instead: 'eventDigest', within: 'src/audit/' },
  { pattern: /\bkeepSecret\b/, instead: 'readOrCreateSecret' },
  { pattern: /\bkeepsTime\b/, instead: 'runsScheduler' },
  // The columns `sealed_…` and `…_sealed_…` are allowed: column names are part of the contract, and `\b` does not match
  // beside `_`.
  { pattern: /\b[Ss]ealing\b|\b(un)?seal(s|ed)?\b/, instead: 'encrypt, decrypt' },
  { pattern: /\bDoing\b|\bdoingOf/, instead: 'AuditContext, auditContextOf' },
  { pattern: /\bgoesBack\b/, instead: 'restockedLines' },
  { pattern: /\b[cC]ountedFor\b/, instead: 'quotaKey, QuotaKey' },
  { pattern: /ProductsOfBefore\b/, instead: '…WithoutEvents' },
  {
    pattern: /\b(setAside|copyAside|strays|SoundFiles|isUnsound)\b/,
    instead: 'quarantine, orphans, ValidFiles, isInvalid',
    within: 'src/lake/',
  },
  { pattern: /\b[Pp]ieces\b/, instead: 'units', within: 'console/' },
  { pattern: /\bproduct_changed\b|\bversion_mismatch\b/, instead: 'precondition_failed' },
]

/** Phrases that the field does not use. Case does not count. */
const TURNS: readonly Retired[] = [
  { pattern: /\banew\b/, instead: 'recreated, retries, again' },
  { pattern: /\btr(ies|ied)( it| them| this)?( once)? again\b/, instead: 'retries, is retried' },
  { pattern: /\bin hand\b(?!-)/, instead: 'in flight' },
  { pattern: /\bunder way\b/, instead: 'in flight, in progress' },
  { pattern: /\b(tells?|told) of\b|\bsa(y|ys|id) so\b/, instead: 'reports, contains, logs it' },
  { pattern: /\bwhoever\b|\bwhosoever\b/, instead: 'the caller, the client, the process that …' },
  { pattern: /\b(is|are|was|were) refused for\b/, instead: 'the reason for the refusal' },
  { pattern: /\bfor good\b(?! (reason|measure))/, instead: 'permanently' },
  { pattern: /\ba look at\b/, instead: 'a check of' },
  { pattern: /\bso many\b/, instead: 'the number of' },
  { pattern: /\btests? holds?\b/, instead: 'a test verifies' },
  { pattern: /\bbec(ame|omes?) of\b|\bc(ame|omes?) to nothing\b/, instead: 'the outcome of, fails' },
  { pattern: /\blets? (it|them|a file|the file|the same file) appear\b/, instead: 'publishes, makes visible' },
  { pattern: /\b(stands?|stood) before\b/, instead: 'runs before, precedes' },
  { pattern: /\b(go|goes|went|gone) on\b/, instead: 'continues' },
  { pattern: /\b(brings?|brought) back\b/, instead: 'restores' },
  { pattern: /\b(is|are|was|were|be|been) away\b/, instead: 'is unavailable' },
  { pattern: /\b(is|are|was|were) well(?= (again|when|and|or|only)\b|[.,;:])/, instead: 'is healthy' },
  { pattern: /\b(know|knows|knew) of\b/, instead: 'knows, has' },
  { pattern: /\bwhom\b/, instead: 'who; name the person' },
  { pattern: /\bnothing but\b/, instead: 'only' },
  { pattern: /\blies? (behind|ahead)\b/, instead: 'is older, is newer, follows' },
  { pattern: /\b(gives?|gave) back\b/, instead: 'returns' },
  { pattern: /\bas (it|they) stands?\b/, instead: 'unchanged' },
  // If the package is missing, npx runs a stranger's package of that name from the registry.
  { pattern: /\b(npx|npm (exec|x))(?! --no -- )( -[-\w=]+)* (storefront|node)\b/, instead: './storefront, or npx --no -- storefront' },
  { pattern: /\b(whence|thence|hither|thither|hitherto|unto|lest|forthwith|whereupon)\b/, instead: 'the word that one says today' },
]

/** Lines that use a retired word in another sense, or quote it: the file, a part of the line, and the reason. */
const ALLOWED: readonly { path: string; part: string; reason: string }[] = [
  { path: 'examples/shop/german.ts', part: "desk: 'Schreibtisch'", reason: 'A category of the sample catalogue.' },
  { path: 'CHANGELOG.md', part: '`precondition_failed`', reason: 'Users of the retired codes look for them.' },
]

/** The folders and files to read. In folders, the names of files are checked too. */
const COVERED = [
  ...['src', 'client', 'examples', 'test', 'checks', 'faults', 'fuzz', 'bench', 'deploy', 'migrations', 'docs', 'bin', '.ci'],
  ...['compose.yaml', 'README.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'openapi.json'],
]
const READ = /\.(ts|mjs|js|css|sql|md|json|ya?ml|vcl|sh|txt|html|service)$|^\.ci\//
const NOT_READ = /^checks\/words(\.test)?\.ts$/

/** The retired words in the repository at `root`, each as `file:line "word": write …`. */
export function findRetiredWords(root: string): string[] {
  return listCovered(root)
    .filter((path) => !NOT_READ.test(path))
    .flatMap((path) => [...findInName(path), ...(READ.test(path) ? findIn(path, readFileSync(join(root, path), 'utf8')) : [])])
}

function listCovered(root: string): string[] {
  return COVERED.flatMap((place) => (/\w\./.test(place) ? [place] : listFiles(root, place)))
}

/** The lines of comments that end in a stray ` /`, each as `file:line`. */
export function findStraySlashes(root: string): string[] {
  return listCovered(root)
    .filter((path) => /\.(ts|mjs|js|css)$/.test(path))
    .flatMap((path) => findStraySlashesIn(path, readFileSync(join(root, path), 'utf8')))
}

/** The lines of comments in the text of one file that end in a stray ` /`. */
export function findStraySlashesIn(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) => (/^\s*\*.* \/$/.test(line) ? [`${path}:${index + 1}`] : []))
}

/** The retired words in the name of a file, whose hyphens are read as spaces. */
export function findInName(path: string): string[] {
  const words = path.replaceAll(/[-/]/g, ' ')
  return retiredIn(path, words).map(({ word, instead }) => `${path} "${word}" in its name: write ${instead}`)
}

/** The retired words in the text of one file. */
export function findIn(path: string, text: string): string[] {
  const lines = text.split('\n')
  return retiredIn(path, text)
    .filter(({ line }) => !ALLOWED.some((one) => one.path === path && lines[line - 1]?.includes(one.part)))
    .toSorted((a, b) => a.line - b.line)
    .map(({ line, word, instead }) => `${path}:${line} "${word}": write ${instead}`)
}

function retiredIn(path: string, text: string): { line: number; word: string; instead: string }[] {
  return [...NAMES, ...TURNS.map((turn) => ({ ...turn, pattern: new RegExp(turn.pattern, 'i') }))].flatMap(
    ({ pattern, instead, within = '' }) =>
      (path.startsWith(within) ? [...text.matchAll(acrossLines(pattern))] : []).map((match) => {
        const line = text.slice(0, match.index).split('\n').length
        return { line, word: match[0].replace(/\s+/g, ' '), instead }
      }),
  )
}

/** Lets a phrase be split by a line break, with the mark of a comment at the start of the next line. */
function acrossLines({ source, flags }: RegExp): RegExp {
  return new RegExp(source.replaceAll(' ', String.raw`(?:[ \t]+|[ \t]*\n[ \t]*(?:\/\/|\*|--|#|>)?[ \t]*)`), `${flags}g`)
}
