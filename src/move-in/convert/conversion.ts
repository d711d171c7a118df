import { OperatorError } from '../../errors.ts'
import { cutText } from './html-text.ts'

class Unmappable extends Error {
  override readonly name = 'Unmappable'
}

class NotForSale extends Error {
  override readonly name = 'NotForSale'
}

/** The file or the command line is wrong, so nothing is converted. */
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

export class Conversion {
  readonly #report: (line: string) => void
  readonly #skus = new Set<string>()
  #lines: string[] = []
  refused = 0
  leftOut = 0

  constructor(report: (line: string) => void) {
    this.#report = report
  }

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

  /** Throws Unmappable for the second product with a sku, which the import would store as a change of the first. */
  claimSku(sku: string): void {
    if (this.#skus.has(sku)) unmappable('a previous product of the file has its sku')
    this.#skus.add(sku)
  }

  /** Reports a change that a record needed to be stored. */
  note(label: string, text: string): void {
    this.#report(`${label}: ${text}`)
  }

  take(): string {
    const text = this.#lines.map((line) => `${line}\n`).join('')
    this.#lines = []
    return text
  }
}

export function labelOf(id: string | number | null | undefined, name?: string | null): string {
  return [id ?? 'a record', name ? `"${cutText(name, 60)}"` : ''].filter(Boolean).join(' ')
}
