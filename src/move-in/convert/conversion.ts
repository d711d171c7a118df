import { OperatorError } from '../../errors.ts'

/** A record of an export that a converter cannot map. The message is for the person who moves the shop. */
class Unmappable extends Error {
  override readonly name = 'Unmappable'
}

/** A product that the other shop does not sell. */
class NotForSale extends Error {
  override readonly name = 'NotForSale'
}

/** The file or the command line is wrong: nothing is converted. */
export class WrongFile extends OperatorError {
  override readonly name = 'WrongFile'
  override readonly exitStatus = 2
}

export function unmappable(message: string): never {
  throw new Unmappable(message)
}

export function notForSale(reason: string): never {
  throw new NotForSale(reason)
}

/** Collects the lines that records become, and reports those that become none. */
export class Conversion {
  readonly #report: (line: string) => void
  #lines: string[] = []
  refused = 0
  leftOut = 0

  constructor(report: (line: string) => void) {
    this.#report = report
  }

  /** Adds what `write` returns. What it throws is reported under `label`. */
  add(label: string, write: () => object): void {
    try {
      this.#lines.push(JSON.stringify(write()))
    } catch (error) {
      if (error instanceof NotForSale) {
        this.leftOut++
        this.#report(`left out: ${label}: ${error.message}`)
      } else if (error instanceof Unmappable) {
        this.refused++
        this.#report(`refused: ${label}: ${error.message}`)
      } else throw error
    }
  }

  /** Tells what of a record was changed so that it can be stored. */
  note(label: string, text: string): void {
    this.#report(`${label}: ${text}`)
  }

  /** The lines since the last call. */
  take(): string {
    const text = this.#lines.map((line) => `${line}\n`).join('')
    this.#lines = []
    return text
  }
}

/** How a message names a record: its id or number, and its name. */
export function labelOf(id: string | number | null | undefined, name?: string | null): string {
  return [id ?? 'a record', name ? `"${name.slice(0, 60)}"` : ''].filter(Boolean).join(' ')
}
