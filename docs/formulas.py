"""The formulas in docstrings, which are written for a terminal, and the same in LaTeX for the reference."""

import re

FORMULAS = {
    "y = s x with one factor per channel, s = sigmoid(W2 relu(W1 mean(x) + b1) + b2)": (
        r"$y = s x$ with one factor per channel, "
        r"$s = \operatorname{sigmoid}(W_2 \operatorname{relu}(W_1 \operatorname{mean}(x) + b_1) + b_2)$"
    ),
    "the variant y = a + b + relu(a) relu(b)": (
        r"the variant $y = a + b + \operatorname{relu}(a) \operatorname{relu}(b)$"
    ),
    "at the result z, the solution x of z x + x z = g": "at the result $z$, the solution $x$ of $z x + x z = g$",
    "whose derivative dz solves z dz + dz z = da": r"whose derivative $dz$ solves $z \, dz + dz \, z = da$",
    "x of a x + x a = q": "$x$ of $a x + x a = q$",
    "sign of [[a, q], [0, -a]]": r"sign of $\begin{pmatrix} a & q \\ 0 & -a \end{pmatrix}$",
    "factor Q of v = Q R": "factor $Q$ of $v = Q R$",
    "With q = 1 - drop": r"With $q = 1 - \text{drop}$",
    "y = bias + w^T x + |F x|^2": r"$y = \text{bias} + w^{\top} x + \lVert F x \rVert^2$",
    "paths of |F x|^2": r"paths of $\lVert F x \rVert^2$",
    "y = sign(z) |z|^rho, then y / max(|y|_2, eps)": (
        r"$y = \operatorname{sign}(z) |z|^{\rho}$, then $y / \max(\lVert y \rVert_2, \varepsilon)$"
    ),
    "sign(z) |z|^rho": r"$\operatorname{sign}(z) |z|^{\rho}$",
    "x_i^2 out of |F x|^2": r"$x_i^2$ out of $\lVert F x \rVert^2$",
    "y = a + b + sqrt(relu(a) relu(b) + tau)": (
        r"$y = a + b + \sqrt{\operatorname{relu}(a) \operatorname{relu}(b) + \tau}$"
    ),
    "a + b + sqrt(tau)": r"$a + b + \sqrt{\tau}$",
    "degree p, z(t x) = t^p z(x)": r"degree $p$, $z(t x) = t^p z(x)$",
    "position i is <x_i, ds / dx_i> / p": r"position $i$ is $\langle x_i, \partial s / \partial x_i \rangle / p$",
    "with x_i centered": "with $x_i$ centered",
    "sqrt(l) x_N with x_0 = sqrt(l / t), x <- x (3 - x^2) / 2": (
        r"$\sqrt{\lambda} \, x_N$ with $x_0 = \sqrt{\lambda / t}$, $x \gets x (3 - x^2) / 2$"
    ),
    "the factor sqrt(t)": r"the factor $\sqrt{t}$",
    "Return l^alpha": r"Return $\lambda^{\alpha}$",
    "10^9 multiply-adds": "$10^9$ multiply-adds",
    "U diag(min(max(l, low), high)) U^T": (
        r"$U \operatorname{diag}(\min(\max(\lambda, \text{low}), \text{high})) U^{\top}$"
    ),
    "sum_i w_i (x_i - mean)(x_i - mean)^T": r"$\sum_i w_i (x_i - \mu)(x_i - \mu)^{\top}$",
    "Sigma = X J X^T": r"$\Sigma = X J X^{\top}$",
    "sum_i w_i (x_i - mean x)(y_i - mean y)^T": r"$\sum_i w_i (x_i - \mu_x)(y_i - \mu_y)^{\top}$",
    "(a + a^T) / 2": r"$(a + a^{\top}) / 2$",
    "N(mu, Sigma)": r"$N(\mu, \Sigma)$",
    "Y = [[Sigma + mu mu^T, mu], [mu^T, 1]]": (
        r"$Y = \begin{pmatrix} \Sigma + \mu \mu^{\top} & \mu \\ \mu^{\top} & 1 \end{pmatrix}$"
    ),
    "(Y + eps I)^(1/2)": r"$(Y + \varepsilon I)^{1/2}$",
    '"calvo" Y;': '"calvo" $Y$;',
    "Y + eps I scaled": r"$Y + \varepsilon I$ scaled",
    "log(Y + eps I)": r"$\log(Y + \varepsilon I)$",
    "[[L, mu], [0, 1]] with L L^T = Sigma + eps I": (
        r"$\begin{pmatrix} L & \mu \\ 0 & 1 \end{pmatrix}$ with $L L^{\top} = \Sigma + \varepsilon I$"
    ),
    "[Sigma + mu mu^T, mu]": r"$[\Sigma + \mu \mu^{\top}, \mu]$",
    "x / sqrt(|x|^2 + eps)": r"$x / \sqrt{\lVert x \rVert^2 + \varepsilon}$",
    "shorter than sqrt(eps)": r"shorter than $\sqrt{\varepsilon}$",
    "1 / sqrt(eps)": r"$1 / \sqrt{\varepsilon}$",
    "factor of a + e I": "factor of $a + e I$",
    "strict(L) + log(diag(L)), L L^T = a + e I": (
        r"$\operatorname{strict}(L) + \log \operatorname{diag}(L)$, $L L^{\top} = a + e I$"
    ),
    "log(a + eps I) = U diag(log(l + eps)) U^T": (
        r"$\log(a + \varepsilon I) = U \operatorname{diag}(\log(\lambda + \varepsilon)) U^{\top}$"
    ),
    "c eps(l_1)": r"$c \, \varepsilon(\lambda_1)$",
    "-c eps(l_1)": r"$-c \, \varepsilon(\lambda_1)$",
    '"paper" is eps(l_1)': r'"paper" is $\varepsilon(\lambda_1)$',
    "c eps(s_1)": r"$c \, \varepsilon(s_1)$",
    "With a = Z the square root of Sigma and q the gradient of a loss in Z, x is the gradient in Sigma": (
        r"With $a = Z$ the square root of $\Sigma$ and $q$ the gradient of a loss in $Z$, "
        r"$x$ is the gradient in $\Sigma$"
    ),
    "a, q <- a / |a|_F, q / |a|_F, then q <- (q (3 I - a^2) - a (a q - q a)) / 2, a <- a (3 I - a^2) / 2; x = q / 2": (
        r"$a, q \gets a / \lVert a \rVert_F, q / \lVert a \rVert_F$, then "
        r"$q \gets (q (3 I - a^2) - a (a q - q a)) / 2$, $a \gets a (3 I - a^2) / 2$; $x = q / 2$"
    ),
    "1.5^steps": r"$1.5^{\text{steps}}$",
    "a^alpha = U diag(l^alpha) U^T": r"$a^{\alpha} = U \operatorname{diag}(\lambda^{\alpha}) U^{\top}$",
    "sum_(k <= r) s_k^alpha u_k v_k^T + (a - sum_(k <= r) s_k u_k v_k^T) / (s_r^(1 - alpha) + eps)": (
        r"$\sum_{k \le r} s_k^{\alpha} u_k v_k^{\top} + (a - \sum_{k \le r} s_k u_k v_k^{\top}) / "
        r"(s_r^{1 - \alpha} + \varepsilon)$"
    ),
    "(u_k, s_k, v_k)": "$(u_k, s_k, v_k)$",
    "u <- a v / |a v|, v <- a^T u / |a^T u|, s = |a^T u|": (
        r"$u \gets a v / \lVert a v \rVert$, $v \gets a^{\top} u / \lVert a^{\top} u \rVert$, "
        r"$s = \lVert a^{\top} u \rVert$"
    ),
    "a^(1 - alpha)": r"$a^{1 - \alpha}$",
    "U diag(s^alpha) V^T": r"$U \operatorname{diag}(s^{\alpha}) V^{\top}$",
    "a = U diag(s) V^T": r"$a = U \operatorname{diag}(s) V^{\top}$",
    "(U_1^T x) o ... o (U_r^T x)": r"$(U_1^{\top} x) \odot \dots \odot (U_r^{\top} x)$",
    "signs in U_1 and U_2, divided by sqrt(d)": r"signs in $U_1$ and $U_2$, divided by $\sqrt{d}$",
    "U_1 to U_r": "$U_1$ to $U_r$",
    "z_k = u_k^T M v_k": r"$z_k = u_k^{\top} M v_k$",
    "(1 - s) Sigma + s (tr(Sigma) / c) I, with s in [0, 1]": (
        r"$(1 - s) \Sigma + s (\operatorname{tr}(\Sigma) / c) I$, with $s \in [0, 1]$"
    ),
    "slope rho (|z| + 1e-8)^(rho - 1)": r"slope $\rho (|z| + 10^{-8})^{\rho - 1}$",
    "slope rho / (|z|^(1 - rho) + 0.1)": r"slope $\rho / (|z|^{1 - \rho} + 0.1)$",
    "(relu(z) + 1e-5)^rho - (relu(-z) + 1e-5)^rho": (
        r"$(\operatorname{relu}(z) + 10^{-5})^{\rho} - (\operatorname{relu}(-z) + 10^{-5})^{\rho}$"
    ),
    "sign(z) (|z| + 1e-8)^rho": r"$\operatorname{sign}(z) (|z| + 10^{-8})^{\rho}$",
    "Y = a / t with t = tr(a), Z = I, then T times Y, Z <- (Y + Z^-1) / 2, (Z + Y^-1) / 2; the result is sqrt(t) Y": (
        r"$Y = a / t$ with $t = \operatorname{tr}(a)$, $Z = I$, then $T$ times $Y, Z \gets (Y + Z^{-1}) / 2, "
        r"(Z + Y^{-1}) / 2$; the result is $\sqrt{t} \, Y$"
    ),
    "With W = Z^-1 it is Y, W <- (Y + W) / 2, 2 Y (Y + W)^-1 W": (
        r"With $W = Z^{-1}$ it is $Y, W \gets (Y + W) / 2, 2 Y (Y + W)^{-1} W$"
    ),
    "sqrt(t) / 32": r"$\sqrt{t} / 32$",
    "K_ij = 1 / (l_i - l_j)": r"$K_{ij} = 1 / (\lambda_i - \lambda_j)$",
    "A = a / t, Y = A, P = I, then N times T = (3 I - P Y) / 2, Y <- Y T, P <- T P; the result is sqrt(t) Y": (
        r"$A = a / t$, $Y = A$, $P = I$, then $N$ times $T = (3 I - P Y) / 2$, $Y \gets Y T$, $P \gets T P$; "
        r"the result is $\sqrt{t} \, Y$"
    ),
    "Multiply by sqrt(t)": r"Multiply by $\sqrt{t}$",
    "sqrt(t) Q(A)^-1 P(A) with A = a / t, t = |a|_F": (
        r"$\sqrt{t} \, Q(A)^{-1} P(A)$ with $A = a / t$, $t = \lVert a \rVert_F$"
    ),
    "sqrt(t) / (2 order + 1)": r"$\sqrt{t} / (2 \cdot \text{order} + 1)$",
    "4^order / (2 order + 1)": r"$4^{\text{order}} / (2 \cdot \text{order} + 1)$",
    "sqrt(1 - w)": r"$\sqrt{1 - w}$",
    "sqrt(t) f(I - A) with A = a / t, t = |a|_F": (r"$\sqrt{t} \, f(I - A)$ with $A = a / t$, $t = \lVert a \rVert_F$"),
    "0.176 sqrt(t)": r"$0.176 \sqrt{t}$",
    "psi_1(x) * ... * psi_p(x)": r"$\psi_1(x) * \dots * \psi_p(x)$",
    "psi(x)_k = sum_{h(i) = k} s(i) x_i": r"$\psi(x)_k = \sum_{h(i) = k} s(i) x_i$",
    "entry i, j goes to bucket h_1(i) + h_2(j)": "entry $i, j$ goes to bucket $h_1(i) + h_2(j)$",
    "by sqrt(2)": r"by $\sqrt{2}$",
    "log|P| + tr(P^-1 a) + gamma tr(P - log P - I)": (
        r"$\log |P| + \operatorname{tr}(P^{-1} a) + \gamma \operatorname{tr}(P - \log P - I)$"
    ),
    "P = U diag(sqrt(b^2 + l / gamma) - b) U^T, b = (1 - gamma) / (2 gamma), a = U diag(l) U^T": (
        r"$P = U \operatorname{diag}(\sqrt{b^2 + \lambda / \gamma} - b) U^{\top}$, $b = (1 - \gamma) / (2 \gamma)$, "
        r"$a = U \operatorname{diag}(\lambda) U^{\top}$"
    ),
}

PATTERN = re.compile("|".join(re.escape(one).replace(r"\ ", r"\s+") for one in sorted(FORMULAS, key=len, reverse=True)))


def with_latex(text: str) -> str:
    """Replace the formulas in a text, over ends of lines too.

    >>> with_latex("It is x / sqrt(|x|^2 +\\n    eps).")
    'It is $x / \\\\sqrt{\\\\lVert x \\\\rVert^2 + \\\\varepsilon}$.'
    """
    return PATTERN.sub(lambda found: FORMULAS[" ".join(found[0].split())], text)
