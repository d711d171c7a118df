/** Whether clients of the Iceberg REST catalogue ask, which read `application/json` only. */
export function isIcebergCall(url: string, basePath: string): boolean {
  return url.startsWith(`${basePath}/iceberg/`)
}

/** Names of exceptions by status, as Iceberg's own servers send them. A client decides by the status and shows the message. */
const TYPES: Readonly<Record<number, string>> = {
  400: 'BadRequestException',
  401: 'NotAuthorizedException',
  403: 'ForbiddenException',
  404: 'NotFoundException',
  405: 'UnsupportedOperationException',
  503: 'ServiceUnavailableException',
}

/**
 * The member `error` (`ErrorModel` of Iceberg's REST catalogue) of a refusal below `/iceberg/`.
 * https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
 */
export function icebergErrorOf(status: number, message: string) {
  return { error: { message, type: TYPES[status] ?? 'RESTException', code: status } }
}
