const REFERENCES: Readonly<Record<string, string>> = { '&lt;': '<', '&gt;': '>', '&#13;': '\r', '&amp;': '&' }

/** The elements of each item of an RSS document as the store writes them: one a line, and only text in them. */
export function readItems(xml: string): Record<string, string[]>[] {
  return [...xml.matchAll(/<item>\n(.*?)<\/item>/gs)].map(([, item = '']) => {
    const elements = [...item.matchAll(/<([a-z:_]+)>([^<]*)<\/\1>\n/g)]
    if (elements.map(([text]) => text).join('') !== item) throw new Error(`not only elements with text: ${item}`)
    return Object.fromEntries(
      [...Map.groupBy(elements, ([, name = '']) => name)].map(([name, found]) => [
        name,
        found.map(([, , text = '']) => text.replace(/&(?:lt|gt|#13|amp);/g, (reference) => REFERENCES[reference] ?? '')),
      ]),
    )
  })
}
