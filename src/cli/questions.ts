import { randomUUID } from 'node:crypto'
import type { ProcessReport } from '../app/service.ts'
import { withinMs } from '../within-ms.ts'

type Reports = { [About in keyof ProcessReport]: Awaited<ReturnType<ProcessReport[About]>> }

export interface Question {
  id: string
  about: keyof ProcessReport
}

/** `answer` is undefined when the other process could not read it. */
export interface Answer {
  id: string
  answer?: Reports[keyof ProcessReport] | undefined
}

type Send = (question: Question, onSent: (error: Error | null) => void) => void

/** Questions from one process to another over the channel between them. */
export class Questions {
  /** The callbacks that wait for answers, by question id. */
  readonly #waiting = new Map<string, (answer: Answer['answer']) => void>()

  /** Returns undefined when the other process does not answer in time, or cannot. */
  async ask<About extends keyof ProcessReport>(send: Send, about: About, patienceMs: number): Promise<Reports[About] | undefined> {
    const id = randomUUID()
    const { promise, resolve } = Promise.withResolvers<Answer['answer']>()
    this.#waiting.set(id, resolve)
    send({ id, about }, (error) => {
      if (error !== null) resolve(undefined)
    })
    const answer = await withinMs(patienceMs, promise, undefined)
    this.#waiting.delete(id)
    return answer as Reports[About] | undefined
  }

  take({ id, answer }: Answer): void {
    this.#waiting.get(id)?.(answer)
  }

  /** The other process has ended. */
  end(): void {
    for (const resolve of this.#waiting.values()) resolve(undefined)
  }
}
