/** Gives the operator a file, as the browser does with downloads. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content)
  Object.assign(document.createElement('a'), { href: url, download: name }).click()
  // The download reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
