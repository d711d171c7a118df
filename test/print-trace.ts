import { fileURLToPath } from 'node:url'
import { type ReceivedSpan, readSpans } from './otlp-receiver.ts'

/**
 * The tree of a trace: each span with its kind, its begin after that of the first, its duration, and the other traces
 * that it is linked with. Spans whose parent is not in the file, such as the caller's, are at the top.
 */
export function formatTrace(spans: readonly ReceivedSpan[], traceId: string): string[] {
  const ofTrace = spans.filter((span) => span.traceId === traceId)
  const ids = new Set(ofTrace.map(({ spanId }) => spanId))
  const began = Math.min(...ofTrace.map(({ start }) => start))
  const width = Math.max(...ofTrace.map((span) => depthOf(span, ofTrace) * 3 + labelOf(span).length))

  const lines = (span: ReceivedSpan, before: string, marks: [own: string, below: string]): string[] => {
    const children = ofTrace.filter(({ parentSpanId }) => parentSpanId === span.spanId)
    const others = new Set(span.links.map((link) => link.traceId)).size
    const label = `${before}${marks[0]}${labelOf(span)}`.padEnd(width)
    const times = `${`+${(span.start - began).toFixed(1)}`.padStart(8)} ms ${(span.end - span.start).toFixed(1).padStart(8)} ms`
    const head = `${label}  ${span.kind.padEnd(8)} ${times}${others === 0 ? '' : `  links to ${others}`}`.trimEnd()
    return [
      head,
      ...children.flatMap((child, index) =>
        lines(child, before + marks[1], index === children.length - 1 ? ['└─ ', '   '] : ['├─ ', '│  ']),
      ),
    ]
  }
  return ofTrace.filter(({ parentSpanId }) => !ids.has(parentSpanId)).flatMap((span) => lines(span, '', ['', '']))
}

function depthOf(span: ReceivedSpan, all: readonly ReceivedSpan[]): number {
  const parent = all.find(({ spanId }) => spanId === span.parentSpanId)
  return parent === undefined ? 0 : 1 + depthOf(parent, all)
}

function labelOf({ name, isError, attributes }: ReceivedSpan): string {
  const group = attributes['messaging.consumer.group.name']
  return [name, ...(group === undefined ? [] : [`[${group}]`]), ...(isError ? [`(${attributes['error.type']})`] : [])].join(' ')
}

// `node test/print-trace.ts FILE [TRACE_ID]`: a file of the collector's exporter `file`. Without an id the first
// trace of an order.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file = '', traceId] = process.argv.slice(2)
  const spans = readSpans(file)
  const chosen = traceId ?? spans.find(({ name }) => name === 'place order')?.traceId
  if (chosen === undefined) throw new Error('the file has no trace of an order')
  console.log(formatTrace(spans, chosen).join('\n'))
}
