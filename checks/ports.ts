import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { listFiles } from './documents.ts'

const FOLDERS = ['src', 'test', 'faults', 'fuzz', 'bench', 'deploy', 'examples']
/** The forms in which tests have calculated a port from another one. */
const GUESSES = [/\b(port|\w+Port)\)? [-+] \w/, /\.listen\([^,)]* [-+] \d/, /\b[A-Z_]*PORT: String\([^)]* [-+] /]
/** Files that may do so, because they find free ports, or concern processes whose ports count upwards. */
const MAY = ['test/free-port.ts', 'src/app/process-configs.ts', 'src/app/doctor/examine-machine.ts']

/** The lines that guess a port beside another one, as `file:line`. The neighbour of a free port may be taken. */
export function findGuessedPorts(root: string): string[] {
  return FOLDERS.flatMap((folder) => listFiles(root, folder))
    .filter((path) => path.endsWith('.ts') && !MAY.includes(path))
    .flatMap((path) => findGuessedPortsIn(path, readFileSync(join(root, path), 'utf8')))
}

/** The lines of one file that guess a port. */
export function findGuessedPortsIn(path: string, text: string): string[] {
  return text
    .split('\n')
    .flatMap((line, index) => (GUESSES.some((guess) => guess.test(line)) && !/^\s*(\/\/|\*)/.test(line) ? [`${path}:${index + 1}`] : []))
}
