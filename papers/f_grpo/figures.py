def draw(root):
    pass


def show(root):
    pass
