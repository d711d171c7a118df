import type { WriteStream } from 'node:tty'
import { every } from '../loop.ts'

export interface Progress {
  show(text: string): void
  clear(): void
  end(): void
}

const EVERY_MS = 1_000
/** The pause between two lines if a line cannot be rewritten, such as in a log or a mail from cron. */
const LOGGED_EVERY_MS = 30_000
const CLEAR_LINE = '\r\x1b[K'

/** A terminal shows progress. Other streams get a line every half minute, so none for short work. */
export function createProgress(stream: Pick<WriteStream, 'isTTY' | 'columns' | 'write'> = process.stderr): Progress {
  const startedAt = performance.now()
  let text = ''
  if (!stream.isTTY) {
    const log = () => text === '' || stream.write(`${text} … ${Math.floor((performance.now() - startedAt) / 1_000)} s\n`)
    const end = every(LOGGED_EVERY_MS, log, { ref: false })
    return {
      show(next) {
        text = next
      },
      clear() {},
      end,
    }
  }
  const clear = () => {
    if (text !== '') stream.write(CLEAR_LINE)
  }
  const draw = () => {
    const seconds = Math.floor((performance.now() - startedAt) / 1_000)
    const line = seconds === 0 ? `${text} …` : `${text} … ${seconds} s`
    // A longer line would be wrapped, and only its last part is rewritten.
    stream.write(`${CLEAR_LINE}${line.slice(0, Math.max(20, stream.columns || 80) - 1)}`)
  }
  const endTicks = every(EVERY_MS, () => text === '' || draw(), { ref: false })
  return {
    show(next) {
      text = next
      draw()
    },
    clear,
    end() {
      endTicks()
      clear()
      text = ''
    },
  }
}

export async function withProgress<T>(text: string, work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = createProgress()
  progress.show(text)
  try {
    return await work(progress)
  } finally {
    progress.end()
  }
}
